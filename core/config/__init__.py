"""The config: from YAML to checked specs to built parts."""
