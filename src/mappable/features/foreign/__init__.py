"""Encoders of others: torch.hub models, ONNX files with a description, and descriptors in files."""
