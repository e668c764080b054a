"""Find the packages: core/ is the package elbowroom, plugins/ and contrib/ are inside it."""

from setuptools import find_packages, setup

FOLDERS = {"elbowroom": "core", "elbowroom.plugins": "plugins", "elbowroom.contrib": "contrib"}

setup(
    packages=[
        *FOLDERS,
        *(f"{outer}.{name}" for outer, folder in FOLDERS.items() for name in find_packages(folder)),
    ]
)
