import Loop

/// The numbers by which transfers are named on D-Bus and in the journal. Each is given out once, over all runs, where a file
/// says which numbers are free (`keep`, `add`).
///
/// While no number is known to be free, because the file cannot be read, numbers come from far beyond the file's: each run
/// begins at a random place there.
@LoopActor
public final class TransferNumbers {
  /// Those of all services of this process, so that a number in the journal means one transfer.
  public static let shared = TransferNumbers()

  /// The numbers for a run that does not know which are free. No file hands these out.
  public nonisolated static let strays = 1 << 40..<1 << 53
  /// When no more than these are free, more are asked for.
  public nonisolated static let fewNumbers = 500

  private var free: [Range<Int>]
  private var nextStray = TransferNumbers.strays.lowerBound
  private var askForMore: @LoopActor () -> Void = {}
  private var isAsking = false

  /// All numbers from 1 on, for a process that remembers no earlier run.
  public nonisolated init() { free = [1..<Self.strays.lowerBound] }

  /// From now on, only numbers that `add` names are free.
  ///
  /// - Parameters:
  ///   - stray: where those begin that are given out while no other is free: a random one of `strays`.
  ///   - more: called when few are free. It has `add` called, then or later.
  public func keep(strayFrom stray: Int, more: @escaping @LoopActor () -> Void) {
    free = []
    nextStray = stray
    askForMore = more
  }

  /// Adds numbers that were never given out and that no other run will give out.
  public func add(_ numbers: Range<Int>) {
    isAsking = false
    if !numbers.isEmpty { free.append(numbers) }
  }

  /// A number that nothing else has.
  public func next() -> Int {
    defer { askIfFew() }
    guard let range = free.first else {
      nextStray += 1
      return nextStray - 1
    }
    free[0] = range.dropFirst()
    if free[0].isEmpty { free.removeFirst() }
    return range.lowerBound
  }

  private func askIfFew() {
    guard !isAsking, free.reduce(0, { $0 + $1.count }) <= Self.fewNumbers else { return }
    isAsking = true
    askForMore()
  }
}
