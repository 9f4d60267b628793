"""Methods on whole distance matrices, for small n: the paper's and others."""
