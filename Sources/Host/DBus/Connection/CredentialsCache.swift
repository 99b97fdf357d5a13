import Loop

/// The credentials of unique names. The bus never reuses a unique name, so its answer is valid until the name
/// disappears.
@LoopActor
final class CredentialsCache {
  typealias Completion = @LoopActor (Result<Credentials, DBusError>) -> Void

  private enum Entry {
    case asking([Completion])
    case known(Credentials, watch: Registration)
  }

  /// Maximum number of cached names. Each has a match rule, and the system bus permits 512 rules of a connection.
  private static let mostEntries = 256

  private unowned let connection: BusConnection
  private var entries: [String: Entry] = [:]

  init(_ connection: BusConnection) {
    self.connection = connection
  }

  /// The credentials if they are cached; nil until `get` has answered.
  func known(_ sender: String) -> Credentials? {
    if case .known(let credentials, _) = entries[sender] { credentials } else { nil }
  }

  func get(_ sender: String, then: @escaping Completion) {
    switch entries[sender] {
    case .known(let credentials, _):
      EventLoop.shared.soon { then(.success(credentials)) }
    case .asking(let others):
      entries[sender] = .asking(others + [then])
    case nil:
      entries[sender] = .asking([then])
      connection.callBus("GetConnectionCredentials", [.string(sender)]) { [weak self] in
        self?.answer(sender, $0)
      }
    }
  }

  /// Clears the cache when the connection to the bus is lost: the next bus assigns the unique names anew. A pending
  /// request fails, and its callers receive the error.
  func forgetKnown() {
    for (sender, entry) in entries {
      if case .known = entry { entries[sender] = nil }
    }
  }

  private func answer(_ sender: String, _ result: Result<[DBusValue], DBusError>) {
    guard case .asking(let waiting)? = entries.removeValue(forKey: sender) else { return }
    let credentials: Result<Credentials, DBusError>
    switch result {
    case .failure(let error): credentials = .failure(error)
    case .success(let values):
      if let found = Credentials(values.first) {
        credentials = .success(found)
        remember(sender, found)
      } else {
        credentials = .failure(.failed("The bus did not report the user of the connection \(sender)."))
      }
    }
    for then in waiting { then(credentials) }
  }

  private func remember(_ sender: String, _ credentials: Credentials) {
    // The owner of a well-known name may change; only unique names are cached.
    guard sender.hasPrefix(":") else { return }
    if entries.count >= Self.mostEntries { forgetKnown() }
    let watch = connection.names.watch(sender) { [weak self] owner in
      if owner == nil { self?.entries[sender] = nil }
    }
    entries[sender] = .known(credentials, watch: watch)
  }
}

extension Credentials {
  /// - Parameter answer: `a{sv}`, the answer of `GetConnectionCredentials`.
  fileprivate init?(_ answer: DBusValue?) {
    guard let uid = answer?["UnixUserID"]?.asUInt32 else { return nil }
    self.init(
      uid: uid, pid: answer?["ProcessID"]?.asUInt32,
      gids: answer?["UnixGroupIDs"]?.asArray?.compactMap(\.asUInt32) ?? [])
  }
}
