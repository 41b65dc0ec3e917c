// Stands in for a folder that has no source file of its own yet.
