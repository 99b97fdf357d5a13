import Glibc

/// One measured value, with its unit and optionally a target.
struct Figure {
  enum Better { case higher, lower }

  let name: String
  let value: Double
  let unit: String
  /// The target; nil if the number is only for comparison.
  let goal: Double?
  let better: Better

  /// A number whose higher values are better.
  static func more(_ name: String, _ value: Double, _ unit: String, goal: Double? = nil) -> Figure {
    Figure(name: name, value: value, unit: unit, goal: goal, better: .higher)
  }

  /// A number whose lower values are better.
  static func less(_ name: String, _ value: Double, _ unit: String, goal: Double? = nil) -> Figure {
    Figure(name: name, value: value, unit: unit, goal: goal, better: .lower)
  }
}

enum Report {
  static func show(_ figures: [Figure]) {
    for figure in figures {
      var line = pad(figure.name, 52) + lead(text(figure.value), 12) + " " + pad(figure.unit, 8)
      if let goal = figure.goal {
        let ratio = figure.better == .higher ? figure.value / goal : goal / figure.value
        line += "goal " + lead(text(goal), 8) + "   ratio " + text((ratio * 100).rounded() / 100)
      }
      print(line)
    }
    write(figures)
  }

  /// Writes `bench.json`: name, value, unit and goal of each figure.
  private static func write(_ figures: [Figure]) {
    let rows = figures.map { figure in
      let goal = figure.goal.map { text($0) } ?? "null"
      return
        "  {\"name\": \"\(figure.name)\", \"value\": \(text(figure.value)), \"unit\": \"\(figure.unit)\", \"goal\": \(goal)}"
    }
    guard let file = fopen("bench.json", "w") else { return }
    fputs("[\n" + rows.joined(separator: ",\n") + "\n]\n", file)
    fclose(file)
  }

  private static func text(_ value: Double) -> String {
    value >= 100 || value == value.rounded() ? String(Int(value.rounded())) : String((value * 100).rounded() / 100)
  }

  private static func pad(_ text: String, _ width: Int) -> String {
    text + String(repeating: " ", count: max(1, width - text.count))
  }

  private static func lead(_ text: String, _ width: Int) -> String {
    String(repeating: " ", count: max(0, width - text.count)) + text
  }
}
