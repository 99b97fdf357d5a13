import Common
import Terminal

extension FieldResults {
  /// Results for people, at most 80 columns wide.
  public var text: String {
    [head, delivery, costs, airtime, kept].joined(separator: "\n")
  }

  private var head: String {
    """
    \(scenario.field.nodes) nodes, \(links.fewest) to \(links.most) links each (\(Self.decimal(links.mean, 1)) on average), \
    seed \(seed)
    \(Self.decimal(Double(scenario.field.duration.wholeNanoseconds) / 1e9, 0)) s, \(scenario.air.loss) % of frames lost, \
    \(scenario.people.apps) % apps, \(scenario.people.churn) % churn\
    \(flooded)
    \(messages) public messages; signatures of equal bytes checked at most once for all nodes

    """
  }

  private var flooded: String {
    guard scenario.flood.floods, scenario.flood.share > 0 else { return "" }
    return ", \(Self.decimal(Double(scenario.flood.share) / 10, 1)) % flood"
  }

  private var delivery: String {
    var hops = TextTable([
      TextTable.Column("hops", .right), TextTable.Column("nodes", .right), TextTable.Column("after 3 s", .right),
      TextTable.Column("in the end", .right), TextTable.Column("within, 3 s", .right),
    ])
    for (index, share) in promptByHops.prefix(10).enumerated() {
      hops.append([
        "\(index + 1)", "\(share.of)", Self.decimal(share.value, 4), Self.decimal(everByHops[index].value, 4),
        Self.decimal(prompt(within: index + 1).value, 4),
      ])
    }
    var time = TextTable([TextTable.Column("seconds", .right), TextTable.Column("of the connected field", .right)])
    for moment in byTime { time.append(["\(moment.seconds)", Self.decimal(moment.share.value, 4)]) }
    return hops.text(width: 80) + "\n" + time.text(width: 80) + """

      latency, all:   median \(latency.p50) ms, 99th percentile \(latency.p99) ms, maximum \(latency.most) ms
      flooding alone: median \(floodLatency.p50) ms, 99th percentile \(floodLatency.p99) ms, maximum \(floodLatency.most) ms
      50 %, 90 %, 99 % of the field reached after \(Self.seconds(convergence.half)), \(Self.seconds(convergence.ninety)), \
      \(Self.seconds(convergence.whole))

      """ + lettersText
  }

  private var lettersText: String {
    guard letters.written > 0 else { return "" }
    return """
      private: \(letters.written) written, \(letters.arrived) arrived, \(letters.acknowledged) acknowledged; median \
      \(letterLatency.p50) ms

      """ + handOversText
  }

  private var handOversText: String {
    let envelopes = handOvers.reduce(0, +)
    guard envelopes > 0 else { return "" }
    let times = handOvers.enumerated().reduce(0) { $0 + ($1.offset + 1) * $1.element }
    return """
      carried: \(envelopes) envelopes, \(Self.decimal(Double(times) / Double(envelopes), 2)) hand-overs each, at most \
      \(handOvers.count)

      """
  }

  private var costs: String {
    """
    a public message: \(Self.decimal(perMessage(cost.flooded), 1)) frames flooded, \
    \(Self.decimal(perMessage(cost.answered), 1)) in answers, \
    \(Self.decimal(perMessage(cost.duplicates), 1)) duplicates
    a node reached:   \(Self.decimal(cost.perNodeReached, 2)) frames for each that flooding reached, \
    \(Self.decimal(cost.duplicatesPerNodeReached, 2)) duplicates
    \(lost) frames lost by the channel, \(dropped) by full queues, \(cuts) links closed by nodes
    a node wakes up:  \(Self.decimal(wakeUps.all, 1)) times a second, \(Self.decimal(wakeUps.timed, 1)) of them for a timer

    """
  }

  private var airtime: String {
    var table = TextTable([
      TextTable.Column("type"), TextTable.Column("frames", .right), TextTable.Column("bytes", .right),
      TextTable.Column("airtime, s", .right), TextTable.Column("of a node's time", .right),
    ])
    let time = Double(scenario.field.duration.wholeNanoseconds) / 1e6 * Double(scenario.field.nodes)
    for sum in frames {
      table.append([
        sum.kind, "\(sum.frames)", "\(sum.bytes)", Self.decimal(sum.airtime / 1000, 1),
        Self.decimal(100 * sum.airtime / time, 2) + " %",
      ])
    }
    return table.text(width: 80)
  }

  private var kept: String {
    var table = TextTable([TextTable.Column("maximum stored by a node"), TextTable.Column("", .right)])
    for tally in mostKept { table.append([tally.name, "\(tally.count)"]) }
    return table.text(width: 80)
  }

  private static func seconds(_ seconds: Double?) -> String { seconds.map { decimal($0, 1) + " s" } ?? "never" }

  /// Formats a number with rounded decimals.
  static func decimal(_ value: Double, _ places: Int) -> String {
    guard value.isFinite else { return "-" }
    let scale = (0..<places).reduce(1.0) { scale, _ in scale * 10 }
    let scaled = Int64((max(0, value) * scale).rounded())
    guard places > 0 else { return "\(scaled)" }
    let rest = String(scaled % Int64(scale))
    return "\(scaled / Int64(scale)).\(String(repeating: "0", count: places - rest.count))\(rest)"
  }
}
