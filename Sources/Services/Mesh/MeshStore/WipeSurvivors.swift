import Bitchat

/// What outlives a wipe: programs hold the numbers of messages, and neighbours give what was erased for some hours.
public struct WipeSurvivors: Sendable {
  /// The highest number that a message or a file had. The next one is higher, also after a wipe.
  public var highestNumber: UInt32
  /// Traces of what was erased; nil for none.
  public var erased: ErasedTraces?

  public init(highestNumber: UInt32 = 0, erased: ErasedTraces? = nil) {
    (self.highestNumber, self.erased) = (highestNumber, erased)
  }
}
