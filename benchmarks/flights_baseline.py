"""A logistic regression on the flights of `estimator_trainer.data.flights`: the base line of the job wide_and_deep.

    python benchmarks/flights_baseline.py

It gets every number that the job gets, and one-hot columns of everything that is not a number and has few values.
Prints its AUC on the flights of November and December.
"""

import time

from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from estimator_trainer.data import flights

ONE_HOT = ['carrier', 'origin', 'dest', 'manufacturer', 'model', 'month', 'day_of_week', 'hour']
NUMBERS = [*flights.NUMBERS, *flights.KNOWN.values()]


def main():
    train, evaluation = flights.split(flights.examples(*flights.tables()))
    started = time.monotonic()
    model = make_pipeline(
        ColumnTransformer(
            [('numbers', StandardScaler(), NUMBERS), ('one_hot', OneHotEncoder(handle_unknown='ignore'), ONE_HOT)]
        ),
        LogisticRegression(max_iter=500),
    )
    model.fit(train, train[flights.LABEL])
    secs = time.monotonic() - started
    scores = model.predict_proba(evaluation)[:, 1]
    print(f'logistic regression: AUC {roc_auc_score(evaluation[flights.LABEL], scores):.4f}, trained in {secs:.0f} s')


if __name__ == '__main__':
    main()
