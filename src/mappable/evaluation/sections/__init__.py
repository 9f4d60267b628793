"""The sections of the report, a file a subject: what each shows, how to read it, and its tables."""
