"""Operator settings of public model zoos: a crawl of installed packages, and the table that it writes."""
