"""End with 0 if a service answers: python healthy.py http://127.0.0.1:8000"""

import sys
from urllib.request import urlopen

with urlopen(f"{sys.argv[1]}/healthz", timeout=5) as answer:
    sys.exit(answer.status != 200)
