from mappable.evaluation.evaluate import evaluate_map as evaluate_map
from mappable.evaluation.result import Accuracy as Accuracy
from mappable.evaluation.result import Result as Result
