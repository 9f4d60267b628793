"""Places: files, poses and pixels. Whatever the format, images with positions become one table."""
