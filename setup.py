"""Find the packages: core/ is the package elbowroom, plugins/ and contrib/ are inside it.

Folders of presets and templates are listed as well: setuptools treats every folder as a package.
"""

from setuptools import find_namespace_packages, setup

FOLDERS = {"elbowroom": "core", "elbowroom.plugins": "plugins", "elbowroom.contrib": "contrib"}

setup(
    packages=[
        *FOLDERS,
        *(
            f"{outer}.{name}"
            for outer, folder in FOLDERS.items()
            for name in find_namespace_packages(folder, exclude=["packaging", "*__pycache__*"])
        ),
    ]
)
