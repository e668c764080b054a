from typing import Annotated

import typer
from elbowroom import hookimpl
from elbowroom.cli import JSON, console, print_json


def levels(
    schedule: Annotated[str, typer.Argument(help="A schedule's name.")], json: JSON = False
) -> None:
    """The log-SNR of a schedule at both ends."""
    import torch  # heavy things inside: --help loads every command
    from elbowroom import installed

    found = installed().find("schedule", schedule).load()()
    ends = [float(found.log_snr(torch.tensor(t, dtype=torch.float64))) for t in (0.0, 1.0)]
    if json:
        print_json({"clean": ends[0], "noise": ends[1]})
    else:
        console().print(f"from {ends[0]:.2f} to {ends[1]:.2f}")


@hookimpl
def commands():
    return {"levels": levels}  # or "my_package.levels:levels"
