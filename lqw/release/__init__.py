"""A release in git: may a tag stand here, and was its history left alone? Reads commits, never the working tree."""
