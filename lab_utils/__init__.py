"""LSCD workbench: load weights sparse, compute dense."""
