import Glibc

/// A program for the kernel's classic packet filter (BPF). The kernel runs it for each packet of a socket, and drops
/// packets that it does not admit, so that they do not wake this program.
struct PacketProgram: Hashable, Sendable {
  /// One instruction, `struct sock_filter` of <linux/filter.h>.
  struct Instruction: Hashable, Sendable {
    var code: UInt16
    /// Instructions to skip if a comparison is true, and if it is false.
    var ifTrue: UInt8 = 0
    var ifFalse: UInt8 = 0
    var operand: UInt32

    /// Loads the byte at an offset of the packet. A packet that is too short is dropped.
    static func byte(_ offset: UInt32) -> Self { Self(code: 0x30, operand: offset) }
    /// Loads two bytes, big endian.
    static func half(_ offset: UInt32) -> Self { Self(code: 0x28, operand: offset) }
    /// Loads the length of the packet.
    static let length = Self(code: 0x80, operand: 0)
    static func and(_ mask: UInt32) -> Self { Self(code: 0x54, operand: mask) }
    static func isEqual(to value: UInt32, then ifTrue: UInt8, else ifFalse: UInt8) -> Self {
      Self(code: 0x15, ifTrue: ifTrue, ifFalse: ifFalse, operand: value)
    }
    static let admit = Self(code: 0x06, operand: .max)
    static let drop = Self(code: 0x06, operand: 0)
  }

  var instructions: [Instruction]

  /// The encoded instructions, eight bytes each.
  var words: [UInt64] {
    instructions.map {
      UInt64($0.code) | UInt64($0.ifTrue) << 16 | UInt64($0.ifFalse) << 24 | UInt64($0.operand) << 32
    }
  }
}

extension HCISocket {
  // SO_ATTACH_FILTER of <asm-generic/socket.h>.
  private static let attachFilter: Int32 = 26

  /// Makes the kernel drop packets that `program` does not admit.
  func admit(_ program: PacketProgram) throws(HCIError) {
    let status = program.words.withUnsafeBufferPointer { words in
      // `struct sock_fprog`: the number of instructions, and their address.
      let argument = [UInt64(words.count), UInt64(UInt(bitPattern: words.baseAddress))]
      return argument.withUnsafeBytes {
        setsockopt(descriptor, SOL_SOCKET, Self.attachFilter, $0.baseAddress, socklen_t($0.count))
      }
    }
    guard status == 0 else { throw HCIError(errno, in: "setsockopt") }
  }
}
