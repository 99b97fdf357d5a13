import Loop

/// The checks that are under way, a bounded number, and those that wait, in their order. Each has a number of its owner's.
@LoopActor
public final class CheckQueue {
  /// Checks at a time. The checker serves four connections, and other programs use it, too.
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

  /// Checks that are under way, and those that wait.
  public var count: (running: Int, waiting: Int) { (running.count, waiting.count) }

  /// Adds a check. A number that is there already is not added again.
  ///
  /// - Parameters:
  ///   - credential: reads the credential when the check begins; nil if there is none any more, and no check then.
  ///   - then: called once with the verdict, unless the check is removed before.
  public func add(
    _ number: Int, credential: @escaping @LoopActor () -> [UInt8]?,
    then: @escaping @LoopActor (CheckVerdict) -> Void
  ) {
    guard running[number] == nil, !waiting.contains(where: { $0.number == number }) else { return }
    waiting.append(Entry(number: number, credential: credential, then: then))
    begin()
  }

  /// Gives a check up.
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
