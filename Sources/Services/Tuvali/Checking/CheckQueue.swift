import Loop

/// Queue of checks with a bounded number in progress. The owner numbers the checks.
@LoopActor
public final class CheckQueue {
  /// Maximum checks at the same time. The checker serves four connections, including those of other programs.
  public nonisolated static let width = 2

  private struct Entry {
    let number: Int
    let credential: @LoopActor () -> [UInt8]?
    let then: @LoopActor (CheckVerdict) -> Void
  }

  private let checker: any CredentialChecker
  private var waiting: [Entry] = []
  private var running: [Int: Registration] = [:]

  public init(_ checker: any CredentialChecker) { self.checker = checker }

  /// Number of checks in progress, and of waiting ones.
  public var count: (running: Int, waiting: Int) { (running.count, waiting.count) }

  /// Adds a check, unless one with this number is present.
  ///
  /// - Parameters:
  ///   - credential: reads the credential when the check begins; nil if it no longer exists, which drops the check.
  ///   - then: called once with the verdict, unless the check is removed before.
  public func add(
    _ number: Int, credential: @escaping @LoopActor () -> [UInt8]?,
    then: @escaping @LoopActor (CheckVerdict) -> Void
  ) {
    guard running[number] == nil, !waiting.contains(where: { $0.number == number }) else { return }
    waiting.append(Entry(number: number, credential: credential, then: then))
    begin()
  }

  /// Cancels the check of a transfer's credential, whether it waits or is in progress.
  public func remove(_ number: Int) {
    waiting.removeAll { $0.number == number }
    if running.removeValue(forKey: number) != nil { begin() }
  }

  public func removeAll() {
    (waiting, running) = ([], [:])
  }

  private func begin() {
    while running.count < Self.width, !waiting.isEmpty {
      let entry = waiting.removeFirst()
      guard let credential = entry.credential() else { continue }
      running[entry.number] = checker.check(credential) { [weak self] verdict in
        guard let self, running.removeValue(forKey: entry.number) != nil else { return }
        entry.then(verdict)
        begin()
      }
    }
  }
}
