/// The appearance of a text. A terminal without colours uses the other attributes.
public struct Style: Sendable, Hashable {
  public enum Colour: Int16, Sendable, CaseIterable {
    /// The terminal's default colour.
    case plain = 0
    case red, green, yellow, blue, magenta, cyan
  }

  public var colour = Colour.plain
  public var isBold = false
  public var isDim = false
  public var isReverse = false
  public var isUnderlined = false
  /// Black on white, independent of the terminal's default colours; the other members are then ignored. A terminal
  /// without colours uses its defaults.
  public var isBlackOnWhite = false

  public init(
    _ colour: Colour = .plain, bold: Bool = false, dim: Bool = false, reverse: Bool = false, underlined: Bool = false
  ) {
    self.colour = colour
    isBold = bold
    isDim = dim
    isReverse = reverse
    isUnderlined = underlined
  }

  public static let plain = Style()

  /// The style of a QR code, for cameras.
  public static let blackOnWhite: Style = {
    var style = Style()
    style.isBlackOnWhite = true
    return style
  }()
}
