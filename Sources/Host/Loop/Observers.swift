/// Closures that are called on an event or a change, in the order in which they were added.
///
/// During a call an observer may cancel any registration, add an observer or cause the next call. A cancelled observer
/// is not called any more, and a new one is called from the next time on.
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

  /// Whether there are no observers.
  public var isEmpty: Bool { entries.isEmpty }

  /// Calls `observer` with each value from now on, for the lifetime of the registration.
  public func add(_ observer: @escaping Observer) -> Registration {
    let entry = Entry(observer)
    entries.append(entry)
    return Registration { [weak self] in
      entry.observer = nil
      self?.entries.removeAll { $0 === entry }
    }
  }

  /// Calls `observer` with each value from now on, permanently.
  public func addForGood(_ observer: @escaping Observer) {
    entries.append(Entry(observer))
  }

  /// Calls each observer with `value`.
  ///
  /// - Parameter isCurrent: checked before each observer. If an observer causes the next value, all observers have
  ///   received that one first, and the present value is then outdated.
  public func call(_ value: Value, while isCurrent: @LoopActor () -> Bool = { true }) {
    for entry in entries {
      guard isCurrent() else { return }
      entry.observer?(value)
    }
  }

  /// Removes all observers. Cancelling their registrations afterwards has no effect.
  public func removeAll() {
    for entry in entries { entry.observer = nil }
    entries = []
  }
}

extension Observers<Void> {
  /// Calls each observer, for a notification without a value.
  public func call() {
    call(())
  }
}
