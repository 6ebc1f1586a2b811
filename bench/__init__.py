"""How fast is hooklane beside the limits of the machine it runs on? `python -m bench`, or `python -m bench NAME …`.

Load generator, server, database and sink share one machine, as they would not in earnest: read the ratios. Every figure
stands beside the limit H (wrk → nginx, the same requests and an answer of the same size) of the same minute, and beside
a check of what the sink saw.
"""
