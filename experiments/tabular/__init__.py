"""Tables: DIRAD and other methods, tuned alike, on data sets that were listed beforehand."""
