import Common
import DBus
import Terminal

/// The meanings of the counters of an object on the bus.
public struct CounterMeanings: Sendable {
  /// The title of the table: the name of a service.
  let title: String
  private let path: ObjectPath
  public let interface: String
  public let meanings: [String: String]
  /// The common meaning of all counters that are not in `meanings`; empty if these have no explanation.
  let others: String

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

  /// The counters as codes for `earshot explain`.
  var codes: [CodeMeaning] {
    meanings.sorted { $0.key < $1.key }.map {
      CodeMeaning($0.key, kind: "counter of the \(title)", "Counts \($0.value).")
    }
  }

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
    let lines = lines(counters(objects), width: width)
    return lines.isEmpty ? "" : ([title] + lines).map { $0 + "\n" }.joined()
  }

  /// Counters with their meanings, in three columns: number, name and meaning.
  ///
  /// - Parameter width: the columns of the terminal.
  public func lines(_ counters: [(name: String, count: Int)], width: Int) -> [String] {
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
    return lines
  }

  /// The counters of the service as a whole.
  public static let house = CounterMeanings(
    "service", Client.manager, Client.managerInterface,
    [
      "DeniedCalls": "method calls refused because the caller is not permitted to make them",
      "RefusedCalls": "method calls refused because WaitingCallers= or WaitingCalls= was reached",
      "ThrottledCalls": "method calls refused because the caller exceeded CallsPerSecond=",
      "RefusedWatchers": "Watch calls refused because the maximum of connections already watched",
      "RefusedFiles": "callers' files refused because too many were waiting to be read",
      "LateFiles": "callers' files whose content did not arrive in time",
      "Strangers": "calls by other programs of methods that only bluetoothd may call",
      "Malformed": "malformed properties, paths and signals from bluetoothd, ignored",
      "RefusedWrites": "writes by peers that were answered with an error",
      "DroppedNotifications": "values not sent because the client had not subscribed or had disconnected",
      "RepeatedNotifications": "values sent again because the client changed its subscription meanwhile",
      "RefusedLinks": "links not reported to any service because there were too many",
      "ScanRestarts": "restarts of scanning because no more scan results arrived",
      "UnusedLinks": "links that were disconnected because the peer used no service",
      "YieldedLinks": "links closed by one service to free capacity for another",
      "RefusedAttempts": "connection attempts refused before they began",
    ])
}
