import CommandLine
import Common

extension FieldResults {
  /// All results as JSON.
  public var json: JSONValue {
    [
      "seed": .unsigned(seed),
      "scenario": scenario.json,
      "signatureChecks": "each signature was checked once for all nodes; every real node checks it",
      "links": ["fewest": .int(Int64(links.fewest)), "mean": .double(links.mean), "most": .int(Int64(links.most))],
      "messages": .int(Int64(messages)),
      "unsaid": .int(Int64(unsaid)),
      "promptByHops": .array(promptByHops.map(\.json)),
      "everByHops": .array(everByHops.map(\.json)),
      "byTime": .array(byTime.map { ["seconds": .int(Int64($0.seconds)), "share": $0.share.json] }),
      "latency": Self.json(latency),
      "floodLatency": Self.json(floodLatency),
      "cost": [
        "flooded": .unsigned(cost.flooded), "answered": .unsigned(cost.answered),
        "duplicates": .unsigned(cost.duplicates), "reachedByFlood": .int(Int64(cost.reachedByFlood)),
        "reachedByAnswer": .int(Int64(cost.reachedByAnswer)), "floodedPerNodeReached": .double(cost.perNodeReached),
        "duplicatesPerNodeReached": .double(cost.duplicatesPerNodeReached),
        "floodedPerMessage": .double(perMessage(cost.flooded)),
        "answeredPerMessage": .double(perMessage(cost.answered)),
        "duplicatesPerMessage": .double(perMessage(cost.duplicates)),
      ],
      "convergence": [
        "half": Self.json(convergence.half), "ninety": Self.json(convergence.ninety),
        "whole": Self.json(convergence.whole),
      ],
      "air": .array(
        frames.map {
          [
            "kind": .string($0.kind), "frames": .unsigned($0.frames), "bytes": .unsigned($0.bytes),
            "milliseconds": .double($0.airtime),
          ]
        }),
      "lost": .unsigned(lost), "dropped": .unsigned(dropped), "cuts": .unsigned(cuts),
      "wakeUpsPerSecond": ["all": .double(wakeUps.all), "timed": .double(wakeUps.timed)],
      "private": [
        "written": .int(Int64(letters.written)), "arrived": .int(Int64(letters.arrived)),
        "acknowledged": .int(Int64(letters.acknowledged)), "latency": Self.json(letterLatency),
        "handOvers": .array(handOvers.map { .int(Int64($0)) }),
      ],
      "mostKept": .object(mostKept.map { JSONValue.Member($0.name, .int(Int64($0.count))) }),
      "counters": .object(counters.map { JSONValue.Member($0.name, .unsigned($0.count)) }),
    ]
  }

  /// Maximum holdings of a node, by name.
  public var mostKept: [Tally] {
    type(of: most).all.map { Tally($0.name, most[keyPath: $0.path]) }
  }

  private static func json(_ latency: (p50: UInt32, p99: UInt32, most: UInt32)) -> JSONValue {
    ["p50": .int(Int64(latency.p50)), "p99": .int(Int64(latency.p99)), "most": .int(Int64(latency.most))]
  }

  private static func json(_ seconds: Double?) -> JSONValue { seconds.map { .double($0) } ?? .null }
}

extension FieldResults.Share {
  var json: JSONValue { ["had": .int(Int64(had)), "of": .int(Int64(of)), "share": .double(value)] }
}

extension Scenario {
  var json: JSONValue {
    func seconds(_ time: Duration) -> JSONValue { .double(Double(time.wholeNanoseconds) / 1e9) }
    func number(_ number: Int) -> JSONValue { .int(Int64(number)) }
    return [
      "nodes": number(field.nodes), "width": number(field.width), "height": number(field.height),
      "placement": .string(field.placement.rawValue), "range": number(field.range), "links": number(field.links),
      "fewestLinks": number(field.fewestLinks), "seconds": seconds(field.duration), "loss": number(air.loss),
      "latency": [seconds(air.latency.lowerBound), seconds(air.latency.upperBound)],
      "frameTime": seconds(air.frameTime), "apps": number(people.apps), "silent": number(people.silent),
      "walkers": number(people.walkers), "speed": number(people.speed), "churn": number(people.churn),
      "talkEvery": seconds(talk.every), "talkFrom": seconds(talk.from), "privateEvery": seconds(talk.privateEvery),
      "couriers": .bool(talk.couriers),
      "floodShare": number(flood.floods ? flood.share : 0),
    ]
  }
}
