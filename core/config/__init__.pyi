from .assembly import (
    Parts as Parts,
    build_model as build_model,
    build_parts as build_parts,
    natural_schedule as natural_schedule,
    network_signature as network_signature,
    with_schedule as with_schedule,
)
from .explain import Remark as Remark
from .messages import (
    bytes_in_words as bytes_in_words,
    check_integer as check_integer,
    check_path as check_path,
    show as show,
)
from .preset import presets as presets
from .schema import kind_of as kind_of, options_of as options_of
from .sections import config_class as config_class, parse_spec as parse_spec
from .spec import to_plain as to_plain
from .yaml_reader import write_yaml as write_yaml
