"""What one would write in an afternoon: scikit-learn's partial_fit behind FastAPI.

It learns in the process that answers, keeps nothing on disk, and detects nothing.
"""

import sys
import threading

import numpy as np
import uvicorn
from fastapi import FastAPI, Request
from sklearn.linear_model import SGDClassifier

app = FastAPI()
model = SGDClassifier(loss="log_loss", random_state=0)
one_at_a_time = threading.Lock()


@app.post("/samples")
def samples(body: dict):
    """Learn rows with labels."""
    with one_at_a_time:
        model.partial_fit(np.array(body["rows"]), np.array(body["labels"]), classes=[0, 1])
    return {"rows": len(body["rows"])}


@app.post("/predict")
def predict(body: dict):
    """Answer rows."""
    probabilities = model.predict_proba(np.array(body["rows"]))
    return {
        "predictions": model.classes_[probabilities.argmax(axis=1)].tolist(),
        "probabilities": probabilities.tolist(),
    }


@app.get("/healthz")
def healthz(request: Request):
    """Say that the service runs."""
    return {"status": "ok"}


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
