"""DIRAD: how one network grows."""
