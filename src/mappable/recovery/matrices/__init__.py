"""The paper's way, and others like it: whole matrices of distances, for small n."""
