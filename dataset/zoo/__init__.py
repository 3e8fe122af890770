"""What model zoos are made of: a crawl of installed packages, and the table of operator settings it wrote."""
