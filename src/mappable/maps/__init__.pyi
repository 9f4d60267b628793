from mappable.maps.calibration import Calibration as Calibration
from mappable.maps.choosing import greedy_landmarks as greedy_landmarks
from mappable.maps.choosing import sequential_landmarks as sequential_landmarks
from mappable.maps.encoders import open_encoder as open_encoder
from mappable.maps.landmarks import Landmarks as Landmarks
