"""One module per format; see `mappable.readers.registry`."""
