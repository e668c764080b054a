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
    with_average as with_average,
)
from .output import (
    complain as complain,
    console as console,
    echo as echo,
    in_detail as in_detail,
    listen as listen,
    number as number,
    print_json as print_json,
    printable as printable,
    progress_bars as progress_bars,
    progress_display as progress_display,
    speaks as speaks,
    table as table,
)
from .pace import Lines as Lines, Pace as Pace, duration as duration
