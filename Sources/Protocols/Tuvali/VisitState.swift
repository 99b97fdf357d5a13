import Bytes
import Common
import Crypto

/// How far a visit has come.
enum VisitState: Sendable {
  /// The wallet has identified itself and has announced no size. There are keys for each code that it may have read.
  case identified([SessionKeys])
  /// Chunks are coming in.
  case receiving(Reception)
  /// The frame is complete, and is being decrypted.
  case unsealing(until: Instant)
  /// The credential is decrypted, and is being stored.
  case keeping(until: Instant)
  /// The wallet waits for the verdict. It knows of its success unless the credential is stored provisionally.
  case deciding(until: Instant, isProvisional: Bool)
  /// The wallet knows the verdict, and should disconnect by itself.
  case leaving(until: Instant)
  /// The wallet was refused, and is asked to disconnect when the answer has reached it.
  case refused(VerifierEngine.Refusal, until: Instant)
  /// The wallet was asked to disconnect.
  case closing(cutAt: Instant)

  /// A frame that is being received.
  struct Reception: Sendable {
    var assembler: Assembler
    /// When the report goes out: the wallet has asked for it, or the frame is complete. Nil while neither is so.
    var reportAt: Instant?
    /// Whether the wallet has asked for the report that is due.
    var isAsked = false
    /// The session keys for each code that the wallet may have read.
    let keys: [SessionKeys]
  }

  /// Adds a chunk to the frame that is being received, and brings the figures up to date.
  ///
  /// - Returns: what became of the chunk; nil where no chunk is expected.
  mutating func add(_ chunk: [UInt8], _ progress: inout VerifierEngine.Progress) -> Assembler.Outcome? {
    // `consume` moves the reception out of the state, and back into it. A reception that stayed in the state while it
    // changes would be copied, and the whole frame with it, for every chunk. A `where`, or a case that stands for several,
    // would copy it as well: a test counts.
    switch consume self {
    case .receiving(var reception):
      let outcome = reception.assembler.isComplete ? nil : reception.assembler.add(chunk)
      progress.measure(reception.assembler)
      #if compiler(>=6.1)
        self = .receiving(consume reception)
      #else
        // Swift 6.0 cannot consume what a pattern binds. The arrays are counted up and down, and not copied.
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
  /// Notes how much of the frame there is.
  mutating func measure(_ assembler: Assembler) {
    bytesReceived = assembler.receivedBytes
    chunksExpected = assembler.count
    chunksMissing = assembler.missing
  }
}
