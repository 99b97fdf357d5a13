import CQREncode
import Glibc

/// A QR code (ISO/IEC 18004): a square of dark and light modules, without its quiet zone.
public struct QRCode: Sendable, Equatable {
  /// Modules along one side: 21, 25, … 177.
  public let size: Int
  /// Row by row, true is dark.
  private let modules: [Bool]

  /// Encodes a text, in the smallest version that holds it: at most 2953 bytes, more if it is digits and capitals.
  ///
  /// The error correction level is L, or M where that makes the code no larger: on a screen nothing is scratched, and a camera reads
  /// a code of fewer and larger modules from further away.
  public init(_ text: String) throws(QRCodeError) {
    guard !text.isEmpty else { throw QRCodeError(.empty) }
    // The library takes a C string.
    guard !text.utf8.contains(0) else { throw QRCodeError(.containsNUL) }
    let small = try QRCode(text, QR_ECLEVEL_L)
    let strong = try? QRCode(text, QR_ECLEVEL_M)
    self = if let strong, strong.size == small.size { strong } else { small }
  }

  private init(_ text: String, _ level: QRecLevel) throws(QRCodeError) {
    guard let code = QRcode_encodeString(text, 0, level, QR_MODE_8, 1) else {
      throw QRCodeError(errno == ERANGE ? .tooLong : .outOfMemory)
    }
    defer { QRcode_free(code) }
    let size = Int(code.pointee.width)
    self.size = size
    // The lowest bit of each byte is the colour, the others say what the module is for.
    modules = UnsafeBufferPointer(start: code.pointee.data, count: size * size).map { $0 & 1 == 1 }
  }

  /// True if the module is dark; everything outside of the square is light.
  public func isDark(column: Int, row: Int) -> Bool {
    let square = 0..<size
    return square.contains(column) && square.contains(row) && modules[row * size + column]
  }
}
