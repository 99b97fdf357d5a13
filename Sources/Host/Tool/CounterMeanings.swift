import Common
import DBus
import Terminal

/// The meanings of the counters of an object on the bus.
public struct CounterMeanings: Sendable {
  /// The title of the table: the name of a service.
  let title: String
  private let path: ObjectPath
  let interface: String
  let meanings: [String: String]
  private let others: String

  /// - Parameters:
  ///   - meanings: the meaning of each counter, by its name.
  ///   - others: the meaning of every counter that is not in `meanings`.
  public init(
    _ title: String, _ path: ObjectPath, _ interface: String, _ meanings: [String: String], others: String = ""
  ) {
    self.title = title
    self.path = path
    self.interface = interface
    self.meanings = meanings
    self.others = others
  }

  /// The meaning of a counter; empty if it is unknown.
  private func meaning(_ name: String) -> String { meanings[name] ?? others }

  /// The counters that are not 0, in the order of their names.
  func counters(_ objects: ToolPart.Objects) -> [(name: String, count: Int)] {
    let all = objects[path.string]?[interface]?["Counters"]?.asDictionary ?? [:]
    return all.compactMap { name, value in value.asInteger.map { (name, $0) } }.filter { $0.1 > 0 }.sorted {
      $0.0 < $1.0
    }
  }

  /// The non-zero counters with their meanings, a paragraph each in three columns, below the title; empty if all are 0.
  ///
  /// - Parameter width: the columns of the terminal.
  func text(_ objects: ToolPart.Objects, width: Int) -> String {
    let counters = counters(objects)
    guard !counters.isEmpty else { return "" }
    let digits = counters.map { String($0.count).count }.max() ?? 0
    let letters = counters.map(\.name.count).max() ?? 0
    let indent = 2 + digits + 2 + letters + 2
    // Swift 6.0.3 selects the other `flatMap` unless the result type is declared.
    let lines: [String] = counters.flatMap { name, count -> [String] in
      let number = String(count)
      let head =
        String(repeating: " ", count: 2 + digits - number.count) + number + "  " + name
        + String(repeating: " ", count: letters - name.count + 2)
      let meaning = DisplayText.wrap(meaning(name), to: max(20, width - indent))
      guard let first = meaning.first else { return [head] }
      return [head + first] + meaning.dropFirst().map { String(repeating: " ", count: indent) + $0 }
    }
    return ([title] + lines).map { $0 + "\n" }.joined()
  }

  /// The counters of the service as a whole.
  static let house = CounterMeanings(
    "service", Client.manager, Client.managerInterface,
    [
      "DeniedCalls": "method calls by programs that are not allowed to make them",
      "RefusedCalls": "method calls over the limits of one caller",
      "ThrottledCalls": "method calls over CallsPerSecond=",
      "RefusedWatchers": "calls of Watch over the number of programs that may watch",
      "RefusedFiles": "files of callers that were not read, because too many waited",
      "LateFiles": "files of callers whose content did not come in time",
      "Strangers": "calls of methods that only bluetoothd may call, by other programs",
      "Malformed": "malformed properties, paths and signals of bluetoothd, which were ignored",
      "RefusedWrites": "writes of peers that were answered with an error",
      "DroppedNotifications": "values for clients that had not subscribed, or were gone",
      "RepeatedNotifications": "values sent again to clients that had changed their subscription meanwhile",
      "RefusedLinks": "links that no service received, because there were too many",
      "ScanRestarts": "restarts of scanning, because its results had stopped",
      "UnusedLinks": "links that were disconnected because the peer used no service",
      "YieldedLinks": "links that one service gave up for another",
      "RefusedAttempts": "connection attempts that were not begun",
    ])
}
