from .app import app as app
from .main import main as main
from .options import (
    JSON as JSON,
    Changes as Changes,
    Checkpoint as Checkpoint,
    Config as Config,
    Device as Device,
    Ema as Ema,
    Features as Features,
    Metrics as Metrics,
    Overrides as Overrides,
    Precision as Precision,
    Reference as Reference,
    Run as Run,
    Samples as Samples,
    SampleSeeds as SampleSeeds,
    Seed as Seed,
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
    progress_bars as progress_bars,
    progress_display as progress_display,
    set_up_logging as set_up_logging,
    table as table,
)
from .progress import (
    ProgressLines as ProgressLines,
    RemainingTime as RemainingTime,
    duration as duration,
)
