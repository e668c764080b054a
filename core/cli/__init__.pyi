from .app import app as app
from .main import main as main
from .options import (
    JSON as JSON,
    Changes as Changes,
    Checkpoint as Checkpoint,
    Config as Config,
    Device as Device,
    Ema as Ema,
    Overrides as Overrides,
    Precision as Precision,
    Run as Run,
    Trust as Trust,
    help_group as help_group,
    with_ema as with_ema,
)
from .output import (
    console as console,
    echo as echo,
    is_first_rank as is_first_rank,
    log_details as log_details,
    number as number,
    print_error as print_error,
    print_json as print_json,
    printable as printable,
    set_up_logging as set_up_logging,
    table as table,
)
