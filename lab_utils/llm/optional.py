"""Hugging Face's transformers, which only tokenizers and an outside check of our decoder need."""

from types import ModuleType


def transformers() -> ModuleType:
    """The library; RuntimeError that says what to install where it is missing."""
    try:
        import transformers
    except ImportError as error:
        raise RuntimeError("transformers is missing: pip install -e '.[llm]'") from error
    return transformers
