package metrics

import "github.com/prometheus/client_golang/prometheus"

// Shard holds the values of the metrics of one shard.
type Shard struct {
	Index string
	Up    bool // the shard is running
	// Open, Fired, Delivered and Foreign are of all its lanes.
	Open, Fired, Delivered, Foreign int64
	CPU                             float64 // seconds, while it fired and drained
}

// ShardOf fills in the counts of a shard from the looks at its passes.
func ShardOf(index string, up bool, looks []Look) Shard {
	s := Shard{Index: index, Up: up}
	for i := range looks {
		l := &looks[i]
		s.Fired += l.Detail.Measured.Fired
		s.CPU += l.Health.Used[Generator]
		for j := range l.Detail.Lanes {
			s.Open += l.Detail.Lanes[j].Open
			s.Delivered += l.Detail.Lanes[j].Delivered
			s.Foreign += l.Detail.Lanes[j].Foreign
		}
	}
	return s
}

func ofShard(kind prometheus.ValueType, name, help string, of func(*Shard) float64) family[Shard] {
	return newFamily(ShardLabels, kind, name, help, nil, func(x *Shard, emit emitter) { emit(of(x)) })
}

// shardFamilies are the metrics of the shards of a run. The label run has what
// they have in common, also where each shard is asked by itself.
var shardFamilies = []family[Shard]{
	ofShard(gauge, "eventmeter_shard_up", "1 for a shard that is running.", func(s *Shard) float64 { return truth(s.Up) }),
	ofShard(
		gauge,
		"eventmeter_shard_subscriptions_open",
		"Subscriptions of the shard that are active now.",
		func(s *Shard) float64 { return float64(s.Open) },
	),
	ofShard(
		counter,
		"eventmeter_shard_events_published_total",
		"Measured events that the shard sent.",
		func(s *Shard) float64 { return float64(s.Fired) },
	),
	ofShard(
		counter,
		"eventmeter_shard_deliveries_total",
		"Owed pairs of the shard that were received at least once.",
		func(s *Shard) float64 { return float64(s.Delivered) },
	),
	ofShard(
		counter,
		"eventmeter_shard_deliveries_foreign_total",
		"Copies that the shard received of events published by other shards.",
		func(s *Shard) float64 { return float64(s.Foreign) },
	),
	ofShard(
		counter,
		"eventmeter_shard_cpu_seconds_total",
		"CPU time of the shard while it published and drained.",
		func(s *Shard) float64 { return s.CPU },
	),
}
