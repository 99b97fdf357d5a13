import Bytes

/// What one report of the radio holds for this protocol. Facts: pblec.md sections 3 and 4.
enum Report: Hashable {
  /// Nothing: others advertise as well.
  case nothing
  case message(MessagePacket)
  /// No text: the end of a message, as some senders say it. The digit is nil where the name was empty as a whole.
  case stop(digit: UInt8?)
  case beacon(NotifyBeacon)
  case refused(Drop)

  /// Reads AD structures. No memory is taken.
  ///
  /// A list ends where its bytes end or where a length is 0. Of several names the complete one counts, and the first of a kind;
  /// a message goes before a beacon.
  init(reading data: [UInt8]) {
    guard data.count <= Limits.reportBytes else {
      self = .refused(.malformedReport)
      return
    }
    var complete: ArraySlice<UInt8>?
    var shortened: ArraySlice<UInt8>?
    var manufacturer: ArraySlice<UInt8>?
    var reader = ByteReader(data)
    do throws(WireError) {
      while !reader.isAtEnd {
        let length = Int(try reader.u8())
        guard length > 0 else { break }
        let type = try reader.u8()
        let value = try reader.bytes(length - 1)
        switch type {
        case MessagePacket.completeName where complete == nil: complete = value
        case MessagePacket.shortenedName where shortened == nil: shortened = value
        case NotifyBeacon.manufacturerData where value.starts(with: NotifyBeacon.prefix): manufacturer = value
        default: break
        }
      }
    } catch {
      self = .refused(.malformedReport)
      return
    }
    self =
      complete.map { Self(name: $0, isComplete: true) } ?? shortened.map { Self(name: $0, isComplete: false) }
      ?? .nothing
    guard case .nothing = self, let manufacturer else { return }
    do throws(WireError) {
      self = .beacon(try NotifyBeacon(reading: manufacturer))
    } catch {
      self = .refused(.badBeacon)
    }
  }

  private init(name: ArraySlice<UInt8>, isComplete: Bool) {
    var rest = name
    guard let mark = rest.popFirst() else {
      self = .stop(digit: nil)
      return
    }
    guard mark == MessagePacket.mark else {
      self = .nothing
      return
    }
    guard let digit = rest.popFirst(), (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) else {
      self = .refused(.noDigit)
      return
    }
    // A shortened name may have been cut anywhere.
    guard rest.count <= Limits.heardTextBytes, let whole = UTF8Text.wholeCharacters(in: rest),
      whole == rest.count || !isComplete
    else {
      self = .refused(.badText)
      return
    }
    let text = rest.prefix(whole)
    guard !MessageText.hasControls(text) else {
      self = .refused(.controlCharacter)
      return
    }
    let number = digit - UInt8(ascii: "0")
    self =
      text.isEmpty ? .stop(digit: number) : .message(MessagePacket(digit: number, text: MessageText(unchecked: text)))
  }
}
