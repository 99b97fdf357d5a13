import Bytes
import Common
import Crypto

/// Stage of a wallet's session with the verifier.
enum VerifierSessionState: Sendable {
  /// The wallet has sent Identify and no size. There are keys for each code that it may have scanned.
  case identified([SessionKeys])
  /// The wallet has announced a size, and sends the chunks of the frame.
  case receiving(Reception)
  /// The frame is complete and being decrypted.
  case unsealing(until: Instant)
  /// The credential is decrypted and being stored.
  case keeping(until: Instant)
  /// The wallet waits for the verdict. It has received SUCCESS unless the credential is provisional.
  case deciding(until: Instant, isProvisional: Bool)
  /// The wallet has received the verdict, and should disconnect.
  case leaving(until: Instant)
  /// The wallet was refused, and is asked to disconnect once the answer has reached it.
  case refused(VerifierEngine.Refusal, until: Instant)
  /// The wallet was asked to disconnect.
  case closing(cutAt: Instant)

  /// The frame that is being received, and the keys that may decrypt it.
  struct Reception: Sendable {
    var assembler: Assembler
    /// When to send the report; nil until the wallet has requested it or the frame is complete.
    var reportAt: Instant?
    /// Whether the wallet has requested the report.
    var isAsked = false
    /// Session keys for each code that the wallet may have scanned.
    let keys: [SessionKeys]
  }

  /// Adds a chunk to the frame, and updates the figures.
  ///
  /// - Returns: the result; nil if no chunk is expected.
  mutating func add(_ chunk: [UInt8], _ progress: inout VerifierEngine.Progress) -> Assembler.Outcome? {
    // `consume` moves the reception out of the state and back. Otherwise it would be copied with the whole frame for
    // every chunk. A `where` clause, or a case with several patterns, would also copy it, as a test verifies.
    switch consume self {
    case .receiving(var reception):
      let outcome = reception.assembler.isComplete ? nil : reception.assembler.add(chunk)
      progress.measure(reception.assembler)
      #if compiler(>=6.1)
        self = .receiving(consume reception)
      #else
        // Swift 6.0 cannot consume a pattern binding. The reference counts of the arrays change, and nothing is copied.
        self = .receiving(reception)
      #endif
      return outcome
    case .identified(let keys): self = .identified(keys)
    case .unsealing(let until): self = .unsealing(until: until)
    case .keeping(let until): self = .keeping(until: until)
    case .deciding(let until, let isProvisional): self = .deciding(until: until, isProvisional: isProvisional)
    case .leaving(let until): self = .leaving(until: until)
    case .refused(let reason, let until): self = .refused(reason, until: until)
    case .closing(let cutAt): self = .closing(cutAt: cutAt)
    }
    return nil
  }
}

extension VerifierEngine.Progress {
  /// Updates the figures from the assembler.
  mutating func measure(_ assembler: Assembler) {
    bytesReceived = assembler.receivedBytes
    chunksExpected = assembler.count
    chunksMissing = assembler.missing
  }
}
