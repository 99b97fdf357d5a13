import Bitchat

/// Data that survives a wipe: programs use numbers of messages, and neighbours send erased packets for some hours.
public struct WipeSurvivors: Sendable {
  /// Highest number of a message or file. Later numbers are higher, also after a wipe.
  public var highestNumber: UInt32
  /// Hashes of what was erased; nil if nothing was.
  public var erased: ErasedTraces?

  public init(highestNumber: UInt32 = 0, erased: ErasedTraces? = nil) {
    (self.highestNumber, self.erased) = (highestNumber, erased)
  }
}
