from mappable_worlds.simulation import Simulated as Simulated
from mappable_worlds.simulation import simulate as simulate
from mappable_worlds.simulation import write_simulated as write_simulated
