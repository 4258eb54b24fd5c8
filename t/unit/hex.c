/* Hexadecimal digits: one spelling only. */

#include "enforce/hex.h"

#include "t/unit/tap.h"

int
main(void)
{
	const unsigned char bytes[] = {0x00, 0x7f, 0xa0, 0xff};
	unsigned char back[4];
	char text[9];

	hex_encode(text, bytes, sizeof(bytes));
	is_str(text, "007fa0ff", "to digits");
	ok(hex_decode(back, text, 4) && memcmp(back, bytes, 4) == 0, "and back");
	ok(!hex_decode(back, "007fA0ff", 4), "no upper case");
	ok(!hex_decode(back, "007", 2), "no end in the middle");
	ok(!hex_decode(back, "0g", 1) && !hex_decode(back, "/0", 1) &&
		!hex_decode(back, ":0", 1) && !hex_decode(back, "`0", 1),
	    "nothing beside the digits");
	ok(hex_is("00ff", 2) && !hex_is("00ff", 1) && !hex_is("00f", 2) &&
		!hex_is("00fF", 2) && !hex_is("00fg", 2),
	    "a text of digits, all of it");
	return done();
}
