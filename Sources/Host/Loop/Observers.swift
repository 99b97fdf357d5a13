/// The closures to call when something happens or changes, in the order in which they were added.
///
/// An observer may cancel any registration, add another observer or bring about the next call while it is called: one
/// that is cancelled is not called any more, and one that is added is called from the next time on.
@LoopActor
public final class Observers<Value> {
  public typealias Observer = @LoopActor (Value) -> Void

  private final class Entry {
    var observer: Observer?

    init(_ observer: @escaping Observer) {
      self.observer = observer
    }
  }

  private var entries: [Entry] = []

  public nonisolated init() {}

  /// Whether a call would reach no observer.
  public var isEmpty: Bool { entries.isEmpty }

  /// Calls `observer` with each value from now on, for as long as the registration lives.
  public func add(_ observer: @escaping Observer) -> Registration {
    let entry = Entry(observer)
    entries.append(entry)
    return Registration { [weak self] in
      entry.observer = nil
      self?.entries.removeAll { $0 === entry }
    }
  }

  /// Calls `observer` with each value from now on, for as long as there are calls.
  public func addForGood(_ observer: @escaping Observer) {
    entries.append(Entry(observer))
  }

  /// Calls each observer with `value`.
  ///
  /// - Parameter isCurrent: asked before each observer: where an observer brings about the next value, and every observer
  ///   has heard of that one, the others need not hear of this one after it.
  public func call(_ value: Value, while isCurrent: @LoopActor () -> Bool = { true }) {
    for entry in entries {
      guard isCurrent() else { return }
      entry.observer?(value)
    }
  }

  /// Drops all observers; their registrations have nothing to take down any more.
  public func removeAll() {
    for entry in entries { entry.observer = nil }
    entries = []
  }
}

extension Observers<Void> {
  /// Calls each observer.
  public func call() {
    call(())
  }
}
