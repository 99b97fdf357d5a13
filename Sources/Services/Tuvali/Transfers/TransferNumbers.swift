import Loop

/// Numbers of transfers on D-Bus and in the journal. Each is used once over all runs, if a file records which are free
/// (`keep`, `add`).
///
/// While no number is known to be free, because the file cannot be read, numbers are taken from a range far beyond the
/// file's. Each run starts at a random point of it.
@LoopActor
public final class TransferNumbers {
  /// Numbers shared by all services of this process, so that a number in the journal identifies one transfer.
  public static let shared = TransferNumbers()

  /// Range of numbers for a run without known free ones. The file never contains these.
  public nonisolated static let strays = 1 << 40..<1 << 53
  /// Number of free numbers at which more are requested.
  public nonisolated static let fewNumbers = 500

  private var free: [Range<Int>]
  private var nextStray = TransferNumbers.strays.lowerBound
  private var askForMore: @LoopActor () -> Void = {}
  private var isAsking = false

  /// All numbers from 1 on are free, for a process without earlier runs.
  public nonisolated init() { free = [1..<Self.strays.lowerBound] }

  /// Restricts the free numbers to those that `add` provides from now on.
  ///
  /// - Parameters:
  ///   - stray: first number to use while none is free: a random one of `strays`.
  ///   - more: called when few are free. It must have `add` called, immediately or later.
  public func keep(strayFrom stray: Int, more: @escaping @LoopActor () -> Void) {
    free = []
    nextStray = stray
    askForMore = more
  }

  /// Adds numbers that were never used and that no other run will use.
  public func add(_ numbers: Range<Int>) {
    isAsking = false
    if !numbers.isEmpty { free.append(numbers) }
  }

  /// Returns a transfer number that was never used before.
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
