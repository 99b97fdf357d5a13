import Common

/// The output that a stream has passed to the stream below it, and that is not written yet. It counts the owner's
/// octets among those that were written.
struct UnwrittenOutput {
  /// The written pieces of output.
  struct Written {
    /// Number of the owner's octets.
    fileprivate(set) var payload = 0
    /// Number of pieces without octets of the owner, such as frames of control.
    fileprivate(set) var controls = 0
    /// Number of octets of these pieces.
    fileprivate(set) var controlOctets = 0
  }

  private struct Piece {
    /// Number of octets below.
    let wire: Int
    /// Number of the owner's octets in them.
    let payload: Int
  }

  private var pieces = Fifo<Piece>()
  /// Number of written octets of the first piece.
  private var start = 0

  mutating func append(wire: Int, payload: Int) { pieces.append(Piece(wire: wire, payload: payload)) }

  /// Removes the pieces that are complete after `count` more octets were written below.
  mutating func remove(written count: Int) -> Written {
    start += count
    var written = Written()
    while let first = pieces.first, start >= first.wire {
      start -= first.wire
      written.payload += first.payload
      if first.payload == 0 {
        written.controls += 1
        written.controlOctets += first.wire
      }
      pieces.popFirst()
    }
    return written
  }
}
