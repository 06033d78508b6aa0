"""Which reading of the paper's validation rules explains the detections of its runs?"""
